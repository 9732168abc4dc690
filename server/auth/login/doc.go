// Package login is the client's side of SASL, as Kafka configures it: as whom somebody logs in
// to brokers, with PLAIN, SCRAM or OAUTHBEARER. Brokers use it among themselves, and tools do.
//
// # Use
//
// [Parse] takes the login module and the other settings, and touches nothing. [New] makes the
// mechanism for franz-go's client. A mechanism that has a Run fetches its tokens ahead of time
// while that runs; without it they are fetched when somebody logs in.
//
// # Tokens
//
// A token comes from a file, which is read each time somebody logs in, or from an identity
// provider, by the client credentials grant of OAuth 2 (RFC 6749, 4.4). That one is kept until
// most of its time is over, and then another is fetched; while that fails the old one is shown
// for as long as it is good.
//
// # Invariants
//
//   - Neither passwords nor tokens are in an error or a log, and nothing of what a provider
//     answers is but the code that it gives to an error.
//   - One fetch is under way at a time. Who waits for it does so no longer than its context.
package login
