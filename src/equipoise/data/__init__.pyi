from equipoise.data import synthetic as synthetic
from equipoise.data.description import Description as Description
from equipoise.data.groups import Groups as Groups
from equipoise.data.interactions import Interactions as Interactions
from equipoise.data.split import Split as Split
from equipoise.data.split import holdout as holdout
