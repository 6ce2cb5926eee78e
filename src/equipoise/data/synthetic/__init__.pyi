from equipoise.data.synthetic.benchmark import scale as scale
from equipoise.data.synthetic.demo import listening as listening
from equipoise.data.synthetic.theory import ExclusiveTastes as ExclusiveTastes
from equipoise.data.synthetic.theory import PlantedSpectrum as PlantedSpectrum
from equipoise.data.synthetic.theory import exclusive_tastes as exclusive_tastes
from equipoise.data.synthetic.theory import item_regular_blocks as item_regular_blocks
from equipoise.data.synthetic.theory import planted_spectrum as planted_spectrum
from equipoise.data.synthetic.theory import popular_and_rare as popular_and_rare
