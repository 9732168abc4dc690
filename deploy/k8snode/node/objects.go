package node

import (
	"context"
	"errors"
	"net"
	"net/http"
)

// storageClass is that of volumes which many pods may write. Claims that name no class get it.
const storageClass = "shared"

// createObjects creates what the cluster begins with: the Service of the DNS, whose server is
// a process of the node's, and the class of volumes.
func (k *kube) createObjects(ctx context.Context) error {
	ports := []object{{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}}
	return errors.Join(
		k.api.create(ctx, "/api/v1/namespaces/kube-system/services", object{
			"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "kube-dns"},
			"spec": object{"clusterIP": k.dnsIP(), "ports": ports},
		}),
		k.api.create(ctx, "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", object{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
			"metadata":    object{"name": "kube-dns-node", "labels": object{"kubernetes.io/service-name": "kube-dns"}},
			"addressType": "IPv4", "ports": ports,
			"endpoints": []object{{"addresses": []string{k.innerIP()}, "conditions": object{"ready": true}}},
		}),
		k.api.create(ctx, "/apis/storage.k8s.io/v1/storageclasses", object{
			"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
			"metadata":    object{"name": storageClass, "annotations": object{"storageclass.kubernetes.io/is-default-class": "true"}},
			"provisioner": provisioner, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
		}),
	)
}

func (k *kube) nodeReady(ctx context.Context) error {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := k.api.do(ctx, http.MethodGet, "/api/v1/nodes/"+nodeName, nil, &node); err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == "Ready" {
			if c.Status == "True" {
				return nil
			}
			return errors.New(c.Message)
		}
	}
	return errors.New("the node has said nothing of itself")
}

// dnsAnswers asks as a pod does.
func (k *kube) dnsAnswers(ctx context.Context) error {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(k.dnsIP(), "53"))
	}}
	_, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	return err
}
