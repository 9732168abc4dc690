// Package v1alpha1 has the resources of kaas.dev/v1alpha1: KafkaTopic and KafkaUser.
//
// The definitions in deploy/operator/crds, and the same in the chart, are made from these types:
//
//	go generate ./api/...
//
// +kubebuilder:object:generate=true
// +groupName=kaas.dev
package v1alpha1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object paths=. crd:crdVersions=v1 output:crd:dir=../../crds
//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 crd:crdVersions=v1 paths=. output:crd:dir=../../../helm/kaas-operator/crds
