from equipoise.serving.ann import AnnVectors as AnnVectors
from equipoise.serving.ann import to_ann as to_ann
from equipoise.serving.export import export_vectors as export_vectors
from equipoise.serving.lists import write_lists as write_lists
