// Package tlsconf is TLS as Kafka configures it: the ssl.* settings of a listener, the
// keys and certificates that they name, and who a client's certificate says it is.
//
// # Settings
//
// [Parse] takes the settings of one listener through a [Lookup], which knows about
// listener.name.<name>.ssl.* standing before ssl.*, and touches no file; [ParseClient] those of
// who only asks others. [Open] reads what they name. All give errors of one line, a [*KeyError],
// with the key to blame and the file, and never a secret.
//
// # Stores
//
// A keystore holds one private key and the certificates from its own up; a truststore holds
// the certificates that others' have to lead to, the host's own if there is none. They are
// PEM (a file of blocks, or the blocks themselves in a setting), PKCS12, or JKS; as Java has
// it, a file of one of the latter two is told by its first bytes, whatever its type is said to be.
//
// # Rotation
//
// A [Store] is what was read last and was sound as a whole. [Watch] looks at the files when
// their directories change, and now and then, for what the kernel tells of other hosts'
// changes is nothing. What is new is for handshakes from then on; connections that are there
// go on. What is not sound changes nothing, and the log says so, once for each such content.
//
// # Principals
//
// [Name] is a certificate's subject as Java writes it (X500Principal's RFC 2253 form, which
// Kafka's ACLs and rules are written for), and [Rules] make a principal's name of it.
//
// The files are the host's, not the volume's, and are read through internal/hostfile.
package tlsconf
