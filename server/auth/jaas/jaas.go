package jaas

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Entry is one login module with its options.
type Entry struct {
	Module  string
	Options map[string]string
}

// String is the module alone.
func (e Entry) String() string { return e.Module + " with [hidden]" }

// GoString implements fmt.GoStringer.
func (e Entry) GoString() string { return e.String() }

// Users are the passwords that options named user_NAME give to users.
func (e Entry) Users() map[string]string {
	out := map[string]string{}
	for name, value := range e.Options {
		if user, ok := strings.CutPrefix(name, "user_"); ok {
			out[user] = value
		}
	}
	return out
}

var flags = []string{"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"}

// Parse reads a line.
func Parse(s string) (Entry, error) {
	l := lexer{rest: s}
	e := Entry{Options: map[string]string{}}
	class, err := l.next()
	switch {
	case err != nil:
		return Entry{}, err
	case class.kind == end:
		return Entry{}, errors.New("no login module is named")
	case class.kind != word:
		return Entry{}, errors.New("it does not begin with the class of a login module")
	}
	e.Module = class.text
	flag, err := l.next()
	if err != nil {
		return Entry{}, err
	}
	if flag.kind != word || !slices.Contains(flags, strings.ToUpper(flag.text)) {
		return Entry{}, errors.New("the login module is not followed by a control flag, such as required")
	}
	if err := l.options(e.Options); err != nil {
		return Entry{}, err
	}
	if t, err := l.next(); err != nil || t.kind != end {
		return Entry{}, errors.New("there is something behind the semicolon: name one login module")
	}
	return e, nil
}

// options reads options up to the semicolon.
func (l *lexer) options(into map[string]string) error {
	for {
		name, err := l.next()
		switch {
		case err != nil:
			return err
		case name.kind == semicolon:
			return nil
		case name.kind == end:
			return errors.New("it does not end with a semicolon")
		case name.kind != word:
			return errors.New("an option has no name")
		}
		is, err := l.next()
		if err != nil {
			return err
		}
		value, err := l.next()
		if err != nil {
			return err
		}
		if is.kind != equals || value.kind != word {
			// What is taken for a name may be a part of a password.
			return fmt.Errorf("option %d has no value", len(into)+1)
		}
		into[name.text] = value.text
	}
}

// kind is a kind of token.
type kind int

const (
	end kind = iota
	word
	equals
	semicolon
)

type token struct {
	kind kind
	text string
}

// lexer splits a line.
type lexer struct{ rest string }

func (l *lexer) next() (token, error) {
	if err := l.blanks(); err != nil {
		return token{}, err
	}
	if l.rest == "" {
		return token{}, nil
	}
	switch c := l.rest[0]; c {
	case '=':
		l.rest = l.rest[1:]
		return token{kind: equals}, nil
	case ';':
		l.rest = l.rest[1:]
		return token{kind: semicolon}, nil
	case '"', '\'':
		return l.quoted(c)
	}
	n := strings.IndexFunc(l.rest, func(r rune) bool { return r <= ' ' || strings.ContainsRune(`=;"'/`, r) })
	if n < 0 {
		n = len(l.rest)
	}
	t := token{word, l.rest[:n]}
	l.rest = l.rest[n:]
	return t, nil
}

// blanks passes over spaces and comments.
func (l *lexer) blanks() error {
	for {
		l.rest = strings.TrimLeftFunc(l.rest, func(r rune) bool { return r <= ' ' })
		switch {
		case strings.HasPrefix(l.rest, "/*"):
			_, after, ok := strings.Cut(l.rest[2:], "*/")
			if !ok {
				return errors.New("a comment does not end")
			}
			l.rest = after
		case strings.HasPrefix(l.rest, "/"):
			_, l.rest, _ = strings.Cut(l.rest, "\n")
		default:
			return nil
		}
	}
}

var errQuote = errors.New("a quoted value does not end")

func (l *lexer) quoted(quote byte) (token, error) {
	var b strings.Builder
	for i := 1; i < len(l.rest); i++ {
		switch c := l.rest[i]; c {
		case quote:
			l.rest = l.rest[i+1:]
			return token{word, b.String()}, nil
		case '\n', '\r':
			return token{}, errQuote
		case '\\':
			n := escape(l.rest[i+1:], &b)
			if n == 0 {
				return token{}, errQuote
			}
			i += n
		default:
			b.WriteByte(c)
		}
	}
	return token{}, errQuote
}

var escapes = map[byte]byte{'a': 7, 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// escape writes what stands for a backslash and what follows it, and returns of how many bytes
// that was. Up to three octal digits are a character.
func escape(s string, b *strings.Builder) int {
	if s == "" {
		return 0
	}
	if c, ok := escapes[s[0]]; ok {
		b.WriteByte(c)
		return 1
	}
	n, code := 0, 0
	for n < len(s) && n < 3 && s[n] >= '0' && s[n] <= '7' && code*8+int(s[n]-'0') <= 255 {
		code = code*8 + int(s[n]-'0')
		n++
	}
	if n > 0 {
		b.WriteRune(rune(code))
		return n
	}
	b.WriteByte(s[0])
	return 1
}
