// Package house holds the rules of the house as tests that read the source tree.
// It has no code of its own: run "go test ./internal/house".
//
// # Rules
//
//   - Files are touched through internal/substrate only (os_test.go).
//   - Nothing in the product sleeps (os_test.go).
//   - Every package says what it is for (packages_test.go).
//   - Imports point down the list of packages (packages_test.go).
//   - Files stay short (size_test.go).
//   - Links in the documents lead somewhere (text_test.go).
//   - No file names a place on one machine, or leaves work for later in a comment (text_test.go).
//
// Every message names what to do instead. An exception is one line in the rule's
// own table, with its reason.
package house
