"""Our models in the shape of other libraries, for code that was written for those.

- `equipoise.adapters.implicit.ImplicitLike`: the arguments and the arrays of implicit's models
- `equipoise.adapters.lenskit.EquipoiseScorer`: a component of LensKit's pipelines
- `equipoise.adapters.rectools.EquipoiseModel`: a model for RecTools' data sets and reports

Each is imported by its full name: the last two need the library that they speak to.
"""
