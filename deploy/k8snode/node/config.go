package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

type object = map[string]any

// writeConfigs writes what the programs read. What speaks JSON or YAML is given JSON.
func (k *kube) writeConfigs() error {
	if err := errors.Join(os.MkdirAll(k.path("etc", "cni"), 0o755), os.MkdirAll(k.path("volumes"), 0o755)); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(k.path("etc", "containerd.toml"), []byte(k.containerdConfig()), 0o644),
		os.WriteFile(k.path("etc", "Corefile"), []byte(k.corefile()), 0o644),
		k.writeJSON("cni/node.conflist", k.networkConfig()),
		k.writeJSON("kubelet.json", k.kubeletConfig()),
		k.plane.Authority().Client("kubelet", "system:node:"+nodeName, "system:nodes"),
		k.plane.WriteKubeconfig(k.path("etc", "kubelet.kubeconfig"), "kubelet"),
	)
}

func (k *kube) writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(k.path("etc", name), append(b, '\n'), 0o644)
}

// containerdConfig restricts what a pod may ask of the kernel's killer, which a machine
// without CAP_SYS_RESOURCE needs for any pod.
func (k *kube) containerdConfig() string {
	return fmt.Sprintf(`version = 2

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`, pauseName, plugins, k.path("etc", "cni"))
}

// networkConfig leads from each pod to the node by a link of its own, without a bridge: so all
// that pods send passes the packet filter in which kube-proxy works.
func (k *kube) networkConfig() object {
	return object{
		"cniVersion": "0.4.0", "name": "pods",
		"plugins": []object{{"type": "ptp", "mtu": 1400, "ipam": object{
			"type": "host-local", "subnet": k.pods(), "routes": []object{{"dst": "0.0.0.0/0"}},
		}}},
	}
}

// kubeletConfig does without groups for classes of pods, and takes a machine as it is: with
// control groups of version 1, with swap, with little space on its disk.
func (k *kube) kubeletConfig() object {
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address":        k.innerIP(),
		"authentication": object{"anonymous": object{"enabled": false}, "x509": object{"clientCAFile": k.path("pki", "ca.crt")}},
		"clusterDNS":     []string{k.dnsIP()}, "clusterDomain": "cluster.local", "resolvConf": "",
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"cgroupDriver":             "cgroupfs", "cgroupsPerQOS": false, "enforceNodeAllocatable": []string{}, "failCgroupV1": false,
		"failSwapOn":   false,
		"evictionHard": object{"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%"},
		// Images come by hand and would not come again.
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"syncFrequency": "10s",
	}
}

// corefile answers for the cluster's names, fresh at every question; there are no others.
func (k *kube) corefile() string {
	return fmt.Sprintf(`cluster.local:53 in-addr.arpa:53 {
	bind %[1]s
	errors
	kubernetes cluster.local in-addr.arpa {
		kubeconfig %[2]s
		pods insecure
		ttl 1
	}
	loadbalance
}

.:53 {
	bind %[1]s
	template ANY ANY {
		rcode NXDOMAIN
	}
}
`, k.innerIP(), k.plane.Kubeconfig())
}
