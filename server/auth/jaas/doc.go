// Package jaas reads the login configuration that Kafka takes for a SASL mechanism, in one
// line:
//
//	org.apache.kafka.common.security.plain.PlainLoginModule required username="kaas" password="…" user_alice="…";
//
// A line is a class, a control flag, options NAME=VALUE and a semicolon. Values may be quoted,
// with ' or ", and in quotes a backslash escapes as in C. Comments are as in C++, and from a
// single slash to the end of the line. There is exactly one login module.
//
// # Invariant
//
// No error and no text of an [Entry] shows an option's value: values are passwords.
package jaas
