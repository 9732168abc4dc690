// Package clientprops is what Kafka's clients are configured with, as a properties file or a map,
// made into options of franz-go's client: how to reach brokers, by TLS and SASL. Programs
// that speak to brokers take it as --command-config FILE, as Kafka's tools do.
//
//	security.protocol=SASL_SSL
//	sasl.mechanism=SCRAM-SHA-512
//	sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="…";
//	ssl.truststore.type=PEM
//	ssl.truststore.location=ca.pem
//
// # Use
//
// [Load] reads a file, [Parse] takes a map; [Client.Options] opens what they name and gives the
// options for kgo.NewClient. Keys that are not used are no error, for whoever has a file for
// Kafka's tools uses the same one here; they are told in [Client.Notes], as Kafka logs them.
//
// # Invariant
//
// No error and no note shows a value that is a password.
package clientprops
