// Package kafka is the cluster as the operator sees it: topics, credentials, ACLs and quotas,
// asked for and changed by Kafka's own requests. Nothing else of a cluster is touched.
//
// [Dial] makes a [Cluster] of the properties of a client, as Kafka's tools take them with
// --command-config (server/clientprops). When the file changes, or another one that it names,
// the cluster connects anew.
//
// Every error of a Cluster is an [*Error], which says whether to come again: what a broker has
// refused is refused again until somebody changes it, and all else may go better the next time.
// No error has a password.
package kafka
