// Package sasl is the server's side of the SASL mechanisms: PLAIN (RFC 4616), SCRAM-SHA-256
// and SCRAM-SHA-512 (RFC 5802), and OAUTHBEARER (RFC 7628), as Kafka speaks them. It knows
// nothing of connections: what a client sends goes into [Exchange.Step], what comes out of it
// goes to the client.
//
// # Use
//
// A [Mechanism] is made once and begins an exchange for each attempt. The exchange is stepped
// until it says who the client is, or fails. An exchange that has failed never succeeds.
//
// # Invariants
//
//   - Step returns a [User] if and only if the client has proved to be that user. That an
//     exchange is over proves nothing.
//   - No error holds what a client has sent as a secret, or what it was compared with.
//   - A client that fails is told the same, whether or not there is such a user. With SCRAM an
//     unknown user is met like a known one with a wrong password.
package sasl
