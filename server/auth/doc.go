// Package auth says who a connection speaks for: principals, and how Kafka writes them.
// It knows nothing of connections and files.
//
// Call order: a connection begins as [Anonymous]; what authenticates it (TLS, SASL) gives
// it another [Principal]; handlers are asked with that of the request.
package auth
