"""An API server of Kubernetes for tests: the real wire format over HTTP, of a few resources, kept in memory.

What it does is what the API conventions say (lists and watches with resource versions, bookmarks and 410, merge and
JSON patches, the status subresource, finalizers, generations, conflicts), so that the real kubectl and kopf work with
it: `tests/contract/test_kube_api.py` holds it to kubectl. Called by tests alone; never knows what the objects are for.
"""

from tests.support.kube_api.server import KubeApi as KubeApi
