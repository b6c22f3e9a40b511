"""The manifest for KubeRay is whole, and fits what the docs and the settings say."""

from pathlib import Path

import pytest
import yaml

from suites.ctr.cluster.settings import ClusterSettings

ROOT = Path(__file__).resolve().parents[4]
FILE = ROOT / "deploy" / "kuberay.yml"
# Fields of ray.io/v1 RayCluster, as KubeRay's ray-operator/apis/ray/v1/raycluster_types.go names them.
SPEC = {"rayVersion", "enableInTreeAutoscaling", "headGroupSpec", "workerGroupSpecs"}
HEAD = {"rayStartParams", "template"}
WORKER = HEAD | {"groupName", "replicas", "minReplicas", "maxReplicas"}


@pytest.fixture(scope="module")
def parts():
    return {part["kind"]: part for part in yaml.safe_load_all(FILE.read_text())}


def test_the_cluster_has_the_fields_that_kuberay_names(parts):
    cluster = parts["RayCluster"]
    assert cluster["apiVersion"] == "ray.io/v1"
    assert set(cluster["spec"]) == SPEC and set(cluster["spec"]["headGroupSpec"]) == HEAD
    for group in cluster["spec"]["workerGroupSpecs"]:
        assert set(group) == WORKER
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())  # or the operator refuses it


def test_shards_are_fixed_and_trainers_scale(parts):
    shards, trainers = parts["RayCluster"]["spec"]["workerGroupSpecs"]
    assert shards["groupName"] == "shards" and shards["minReplicas"] == shards["maxReplicas"]
    assert shards["replicas"] == ClusterSettings().shards
    assert trainers["groupName"] == "trainers" and trainers["minReplicas"] < trainers["maxReplicas"]
    for group, resource in ((shards, "shard"), (trainers, "trainer")):
        assert group["rayStartParams"]["resources"] == f'"{{\\"{resource}\\": 1}}"'


def test_every_pod_has_the_shared_volume_and_equal_requests_and_limits(parts):
    spec = parts["RayCluster"]["spec"]
    for group in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]:
        pod = group["template"]["spec"]
        assert (
            pod["volumes"][0]["persistentVolumeClaim"]["claimName"]
            == parts["PersistentVolumeClaim"]["metadata"]["name"]
        )
        (container,) = pod["containers"]
        assert container["volumeMounts"] == [{"name": "shared", "mountPath": "/shared"}]
        assert container["resources"]["requests"] == container["resources"]["limits"]


def test_only_the_clusters_own_pods_reach_it(parts):
    policy = parts["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == {"ray.io/cluster": parts["RayCluster"]["metadata"]["name"]}
    assert policy["policyTypes"] == ["Ingress"] and len(policy["ingress"][0]["from"]) == 2
