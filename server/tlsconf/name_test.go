package tlsconf

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"testing"
)

// attr is an attribute of a name for tests; tag 0 is a UTF8String.
type attr struct {
	oid   string
	tag   int
	value string
}

// nameDER encodes places of attributes.
func nameDER(t testing.TB, places ...[]attr) []byte {
	t.Helper()
	var sets []nameSET
	for _, place := range places {
		var set nameSET
		for _, a := range place {
			if a.tag == 0 {
				a.tag = asn1.TagUTF8String
			}
			oid := asn1.ObjectIdentifier{}
			for part := range strings.SplitSeq(a.oid, ".") {
				n := 0
				for _, d := range part {
					n = n*10 + int(d-'0')
				}
				oid = append(oid, n)
			}
			set = append(set, nameAttribute{oid, asn1.RawValue{Tag: a.tag, Bytes: []byte(a.value)}})
		}
		sets = append(sets, set)
	}
	b, err := asn1.Marshal(sets)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	oidCN, oidOU, oidO, oidC, oidL, oidST = "2.5.4.3", "2.5.4.11", "2.5.4.10", "2.5.4.6", "2.5.4.7", "2.5.4.8"
	oidDC, oidUID, oidMail                = "0.9.2342.19200300.100.1.25", "0.9.2342.19200300.100.1.1", "1.2.840.113549.1.9.1"
)

// names are subjects and what Java makes of them; the words were taken from there.
func names(t testing.TB) []struct {
	der  []byte
	want string
} {
	one := func(tag int, value string) []byte { return nameDER(t, []attr{{oidCN, tag, value}}) }
	goName, err := asn1.Marshal(pkix.Name{Country: []string{"DE"}, Organization: []string{"Fruit"}, CommonName: "web1"}.ToRDNSequence())
	if err != nil {
		t.Fatal(err)
	}
	return []struct {
		der  []byte
		want string
	}{
		{goName, "CN=web1,O=Fruit,C=DE"},
		{nameDER(t), ""},
		{nameDER(t, []attr{{oidC, 19, "DE"}}, []attr{{oidST, 0, "BW"}}, []attr{{oidL, 0, "Ulm"}}, []attr{{oidO, 0, "Fruit"}}, []attr{{oidOU, 0, "A"}}, []attr{{oidOU, 0, "B"}},
			[]attr{{oidCN, 0, "x"}}), "CN=x,OU=B,OU=A,O=Fruit,L=Ulm,ST=BW,C=DE"},
		{nameDER(t, []attr{{oidDC, 22, "org"}}, []attr{{oidDC, 22, "fruit"}}, []attr{{oidUID, 0, "u1"}}, []attr{{"2.5.4.9", 0, "Street 1"}}), "STREET=Street 1,UID=u1,DC=fruit,DC=org"},
		{nameDER(t, []attr{{oidMail, 22, "a@b.c"}}, []attr{{oidCN, 0, "x"}}), "CN=x,1.2.840.113549.1.9.1=#16056140622e63"},
		{nameDER(t, []attr{{"2.5.4.5", 19, "123"}}, []attr{{"2.5.4.12", 0, "Dr"}}, []attr{{"2.5.4.42", 0, "G"}}, []attr{{"2.5.4.4", 0, "S"}}), "2.5.4.4=#0c0153,2.5.4.42=#0c0147,2.5.4.12=#0c024472,2.5.4.5=#1303313233"},
		{nameDER(t, []attr{{oidCN, 0, "x"}, {oidUID, 0, "y"}}, []attr{{oidO, 0, "z"}}), "O=z,CN=x+UID=y"},
		{nameDER(t, []attr{{oidUID, 0, "y"}, {oidCN, 0, "x"}}), "CN=x+UID=y"},
		{one(0, `a,b+c"d\e<f>g;h=i#j`), "CN=a\\,b\\+c\\\"d\\\\e\\<f\\>g\\;h\\=i\\#j"},
		{one(0, "  a  b  "), "CN=\\ \\ a  b\\ \\ "},
		{one(0, "   "), "CN=\\ \\ \\ "},
		{one(0, " "), "CN=\\ "},
		{one(0, "#a"), "CN=\\#a"},
		{one(0, "a\rb\r"), "CN=a\rb\\\r"},
		{one(0, "a\nb\n"), "CN=a\nb\n"},
		{one(0, "\ta\t"), "CN=\ta\t"},
		{one(0, "a\x00b"), "CN=a\\00b"},
		{one(0, ""), "CN="},
		{one(0, "äöü 漢字 😀"), "CN=äöü 漢字 😀"},
		{one(0, " ä "), "CN=\\ ä\\ "},
		{one(20, "T61"), "CN=T61"},
		{one(20, "T\xe4"), "CN=T�"},
		{one(30, "\x00a\x00b"), "CN=\\00a\\00b"},
		{one(28, "\x00\x00\x00a"), "CN=#1c0400000061"},
		{one(27, "general"), "CN=general"},
		{one(22, "ia5"), "CN=ia5"},
		{one(18, "123"), "CN=#1203313233"},
		{one(26, "visible"), "CN=#1a0776697369626c65"},
		{one(0, "a\xffb"), "CN=a�b"},
		{one(0, "e\x7f\x01"), "CN=e\x7f\x01"},
	}
}

func TestName(t *testing.T) {
	for _, n := range names(t) {
		if got, err := Name(n.der); err != nil || got != n.want {
			t.Errorf("%x: got %q, %v, want %q", n.der, got, err, n.want)
		}
	}
}

func TestNameUnreadable(t *testing.T) {
	good := nameDER(t, []attr{{oidCN, 0, "x"}})
	for _, der := range [][]byte{nil, {0x30}, good[:len(good)-1], append(good, 0), {0x30, 0x02, 0x30, 0x00}} {
		if got, err := Name(der); err == nil {
			t.Errorf("%x: got %q", der, got)
		}
	}
}

// Whatever a certificate holds is a name or an error, and a name of one line has no quotes
// left open: each comma that is not escaped is between two places.
func FuzzName(f *testing.F) {
	for _, n := range names(f) {
		f.Add(n.der)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		name, err := Name(der)
		if err != nil {
			return
		}
		var sets []nameSET
		if _, err := asn1.Unmarshal(der, &sets); err != nil {
			t.Fatal(err)
		}
		places, attributes := 0, 0
		for _, s := range sets {
			places, attributes = places+1, attributes+len(s)
		}
		bare := strings.NewReplacer(`\\`, "", `\,`, "", `\+`, "").Replace(name)
		if got := strings.Count(bare, ","); got != max(0, places-1) {
			t.Fatalf("%q has %d commas for %d places", name, got, places)
		}
		if got := strings.Count(bare, "+"); attributes > 0 && got > attributes-1 {
			t.Fatalf("%q has %d plus signs for %d attributes", name, got, attributes)
		}
	})
}
