"""What records leave the source as, instead of bytes: as `parse=` wants them, or as the elements that a derived data
set keeps (`kept_elements`). Imports TensorFlow.

Called by the client, with what the user gave. Never sees a record: it says what the op is told, and what comes of that.
"""

from tfquiver.tensorflow_client.parsing.chosen import parsing_of as parsing_of
from tfquiver.tensorflow_client.parsing.parsing import Parsing as Parsing
