// Package helm has the chart of kaas, in the directory of that name, and what tests it.
//
// The values in testdata/values are those of one broker, of clients outside by node ports and
// by load balancers, of TLS, and of everything at once. For each the tests want that
//
//   - Helm's lint has nothing to say and the templates render; the default as it is in
//     testdata/default.yaml, which go test -update writes anew
//   - the API server that deploy/k8snode starts takes every manifest in a dry run on the
//     server, unknown fields refused
//   - the broker's own reading of settings takes what a pod would be given, with the references
//     of its environment resolved as the kubelet does
//
// Helm itself is a tool of this module: go tool helm.
package helm
