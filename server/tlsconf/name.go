package tlsconf

import (
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// nameAttribute is a type and a value of a distinguished name.
type nameAttribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// nameSET is what stands at one place of a name, mostly one attribute. encoding/asn1 takes
// it for a SET by how it is called.
type nameSET []nameAttribute

// keywords are the attributes that have a name in RFC 2253. All others go by number.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.6": "C", "2.5.4.9": "STREET",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// Name is a subject, as a certificate holds it, in the words of Java's X500Principal.getName:
// the last place first, with commas and no spaces between them.
func Name(subject []byte) (string, error) {
	var sets []nameSET
	rest, err := asn1.Unmarshal(subject, &sets)
	if err != nil || len(rest) > 0 {
		return "", fmt.Errorf("the subject cannot be read: %w", orTrailing(err))
	}
	var places []string
	for _, set := range slices.Backward(sets) {
		var attributes []string
		for _, a := range set {
			attributes = append(attributes, a.String())
		}
		places = append(places, strings.Join(attributes, "+"))
	}
	return strings.Join(places, ","), nil
}

func orTrailing(err error) error {
	if err == nil {
		return asn1.SyntaxError{Msg: "trailing data"}
	}
	return err
}

func (a nameAttribute) String() string {
	id := a.Type.String()
	keyword := keywords[id]
	text, ok := nameText(a.Value)
	switch {
	case keyword == "":
		return id + "=#" + hex.EncodeToString(a.Value.FullBytes)
	case !ok:
		return keyword + "=#" + hex.EncodeToString(a.Value.FullBytes)
	}
	return keyword + "=" + escapeName(text)
}

// nameText is a value's text, whose bytes Java reads as UTF-8 whatever kind of text it is.
func nameText(v asn1.RawValue) (string, bool) {
	switch v.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, asn1.TagT61String, asn1.TagGeneralString, asn1.TagBMPString:
		return string([]rune(string(v.Bytes))), v.Class == asn1.ClassUniversal // U+FFFD for what is none
	}
	return "", false
}

// escapeName puts a backslash before what has a meaning in a name, and before spaces at its
// ends.
func escapeName(s string) string {
	var b strings.Builder
	inner := strings.Trim(s, " \r")
	lead := len(s) - len(strings.TrimLeft(s, " \r"))
	for i, r := range s {
		switch {
		case r == 0:
			b.WriteString(`\00`)
			continue
		case strings.ContainsRune(`,=+<>#;"\`, r), i < lead || i >= lead+len(inner):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
