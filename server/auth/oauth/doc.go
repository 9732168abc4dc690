// Package oauth is the server's side of SASL's OAUTHBEARER (RFC 7628), as Kafka speaks it
// (KIP-255, KIP-768): a client shows a token, a JWT that an identity provider has signed, and is
// who the token says.
//
// # Use
//
// [New] makes the mechanism; [Mechanism.Run] loads the provider's keys, from an URL or a file,
// and loads them again now and then, and when a token names a key that is not known. Until they
// were loaded once, or that has failed, clients wait.
//
// # Invariants
//
//   - A token counts only with a signature by one of the provider's public keys. One without a
//     signature, or signed with a secret that both sides know, never does.
//   - It has to say until when it is good, since when, and whose it is; the issuer and the
//     audience have to be as configured, if they are.
//   - Tokens are in no error and in no log.
package oauth
