package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

const (
	provisioner = "kaas.dev/directory"
	cloudEvery  = 500 * time.Millisecond
)

// cloud does what elsewhere a provider does: it gives addresses to Services of type
// LoadBalancer, and directories to claims for a volume. It looks again and again, and what
// fails is tried at the next look.
func (k *kube) cloud(ctx context.Context) error {
	tick := time.NewTicker(cloudEvery)
	defer tick.Stop()
	said := ""
	for {
		err := errors.Join(k.balance(ctx), k.provide(ctx), k.reclaim(ctx))
		if err != nil && err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			fmt.Fprintln(os.Stderr, "instead of a cloud:", said)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

type meta struct{ Name, Namespace, UID string }

type service struct {
	Metadata meta
	Spec     struct{ Type string }
	Status   struct {
		LoadBalancer struct{ Ingress []struct{ IP string } }
	}
}

// balance gives a free address to each Service that lacks one. kube-proxy serves it.
func (k *kube) balance(ctx context.Context) error {
	var list struct{ Items []service }
	if err := k.api.do(ctx, http.MethodGet, "/api/v1/services", nil, &list); err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, s := range list.Items {
		for _, i := range s.Status.LoadBalancer.Ingress {
			taken[i.IP] = true
		}
	}
	last := 1
	for _, s := range list.Items {
		if s.Spec.Type != "LoadBalancer" || len(s.Status.LoadBalancer.Ingress) > 0 {
			continue
		}
		for taken[k.address(204, last)] {
			last++
		}
		ip := k.address(204, last)
		taken[ip] = true
		path := fmt.Sprintf("/api/v1/namespaces/%s/services/%s/status", s.Metadata.Namespace, s.Metadata.Name)
		patch := object{"status": object{"loadBalancer": object{"ingress": []object{{"ip": ip}}}}}
		if err := k.api.do(ctx, http.MethodPatch, path, patch, nil); err != nil {
			return err
		}
	}
	return nil
}

type claim struct {
	Metadata meta
	Spec     struct {
		StorageClassName, VolumeName, VolumeMode string
		AccessModes                              []string
		Resources                                struct{ Requests struct{ Storage string } }
	}
}

// provide makes a directory and a volume of it for each claim of the class that has none.
func (k *kube) provide(ctx context.Context) error {
	var list struct{ Items []claim }
	if err := k.api.do(ctx, http.MethodGet, "/api/v1/persistentvolumeclaims", nil, &list); err != nil {
		return err
	}
	for _, c := range list.Items {
		if c.Spec.StorageClassName != storageClass || c.Spec.VolumeName != "" || c.Spec.VolumeMode == "Block" {
			continue
		}
		if err := k.provideFor(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (k *kube) provideFor(ctx context.Context, c claim) error {
	name := "pvc-" + c.Metadata.UID
	dir := k.path("volumes", name)
	// Any user may write, as a volume of the network lets whoever may mount it.
	if err := errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
		return err
	}
	return k.api.create(ctx, "/api/v1/persistentvolumes", object{
		"apiVersion": "v1", "kind": "PersistentVolume",
		"metadata": object{"name": name, "annotations": object{"pv.kubernetes.io/provisioned-by": provisioner}},
		"spec": object{
			"capacity": object{"storage": c.Spec.Resources.Requests.Storage}, "accessModes": c.Spec.AccessModes,
			"storageClassName": storageClass, "persistentVolumeReclaimPolicy": "Delete",
			"hostPath": object{"path": dir, "type": "Directory"},
			"claimRef": object{
				"apiVersion": "v1", "kind": "PersistentVolumeClaim",
				"namespace": c.Metadata.Namespace, "name": c.Metadata.Name, "uid": c.Metadata.UID,
			},
		},
	})
}

type volume struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec   struct{ PersistentVolumeReclaimPolicy string }
	Status struct{ Phase string }
}

// reclaim removes volumes whose claim is gone, with what is in them, as their policy says.
func (k *kube) reclaim(ctx context.Context) error {
	var list struct{ Items []volume }
	if err := k.api.do(ctx, http.MethodGet, "/api/v1/persistentvolumes", nil, &list); err != nil {
		return err
	}
	for _, v := range list.Items {
		ours := v.Metadata.Annotations["pv.kubernetes.io/provisioned-by"] == provisioner
		// The controller cannot delete a directory of a pod's host, and calls that a failure.
		ended := v.Status.Phase == "Released" || v.Status.Phase == "Failed"
		if !ours || !ended || v.Spec.PersistentVolumeReclaimPolicy != "Delete" {
			continue
		}
		if err := os.RemoveAll(k.path("volumes", v.Metadata.Name)); err != nil {
			return err
		}
		if err := k.api.do(ctx, http.MethodDelete, "/api/v1/persistentvolumes/"+v.Metadata.Name, nil, nil); err != nil {
			return err
		}
	}
	return nil
}
