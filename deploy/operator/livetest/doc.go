// Package livetest runs the operator as a process, against a real API server and an etcd
// (deploy/k8snode), and against three brokers with TLS, SASL and ACLs, as they come from
// this repository. It has no code of its own:
//
//	KAAS_K8S=1 go test -count=1 ./livetest
//
// The operator may do in Kubernetes what the chart's rules let it, and in the cluster what
// examples/granted.sh grants it.
package livetest
