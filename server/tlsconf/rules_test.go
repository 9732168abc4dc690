package tlsconf

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	fullSubject = "CN=web1,OU=Shops,O=Fruit,L=Ulm,ST=BW,C=DE"
	everyKind   = "RULE:^CN=(.*?),OU=Shops.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L," +
		"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT"
)

// What Kafka makes of the same was asked of Kafka 4.4.
func TestRules(t *testing.T) {
	for _, tc := range []struct{ rules, subject, want string }{
		{"DEFAULT", fullSubject, fullSubject},
		{everyKind, fullSubject, "web1"},
		{everyKind, "CN=Web2,OU=Farms,O=Fruit,L=Ulm,ST=BW,C=DE", "web2@farms"},
		{everyKind, "C=DE,cn=web.3,O=Fruit", "WEB.3"},
		{everyKind, "O=Fruit", "O=Fruit"},
		{"RULE:^CN=([^,]+),.*$/$1/L", "CN=Bob,O=x", "bob"},
		{"RULE:^CN=([^,]+),.*$/$1/U", "CN=Bob,O=x", "BOB"},
		{" RULE:a,b/x/ , DEFAULT ", "a,b", "x"},
		{", ,DEFAULT", "a", "a"},
		{"RULE:.*/x/", "abc", "xx"}, // a match of all, and an empty one behind it
		{"RULE:.*|axb/-/", "axb", "--"},
		{"RULE:(x*|.*)/-/", "axb", "-a--b-"},
		{"RULE:^.*/x/", "abc", "x"},
		{`RULE:^(.*)$/$1$2/`, "a", "a$2"},
		{`RULE:(a)/$12/`, "a", "a2"},
		{`RULE:(a)/\$1/`, "a", "$1"},
		{`RULE:(a)/\//`, "a", "/"},
		{`RULE:(a)/$0$0/`, "a", "aa"},
		{`RULE:(?<n>a)/${n}x/`, "a", "ax"},
		{`RULE:a(b)?/<$1>/`, "a", "<>"},
		{`RULE:CN=a\/b/x/`, "CN=a/b", "x"},
		{"RULE:a/\u00df/U", "a", "SS"},
		{"RULE:\u00e4*|.*/-/", "\u00e4\u00f6\u00e4", "--\u00f6--"},
	} {
		rs, err := ParseRules(tc.rules)
		if err != nil {
			t.Errorf("%s: %v", tc.rules, err)
			continue
		}
		if got, err := rs.Apply(tc.subject); err != nil || got != tc.want {
			t.Errorf("%s of %s: got %q, %v, want %q", tc.rules, tc.subject, got, err, tc.want)
		}
	}
}

func TestRulesThatDoNotFit(t *testing.T) {
	for _, tc := range []struct{ rules, subject string }{
		{"RULE:^CN=a$/x/", "CN=b"},
		{"RULE:CN=a/x/", "CN=ab"}, // all of it has to fit
		{"RULE:a//", "a"},         // nobody's name
	} {
		rs, err := ParseRules(tc.rules)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := rs.Apply(tc.subject); err == nil {
			t.Errorf("%s of %s: got %q", tc.rules, tc.subject, got)
		}
	}
}

func TestRulesRefused(t *testing.T) {
	for _, rules := range []string{
		"", " ", ",", "RULE", "RULE:", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:a/b/LU", "RULE:a/b/ RULE:c/d/", "DEFAULTX", "default",
		"RULE:(/x/", "RULE:(?=a)/x/", `RULE:(a)\1/x/`, "RULE:a/$1/", "RULE:(a)/$/", "RULE:(a)/$x/", "RULE:(a)/${x}/", "RULE:(a)/${x/", `RULE:\Qa/x/`,
	} {
		if rs, err := ParseRules(rules); err == nil {
			t.Errorf("%q: taken as %d rules", rules, len(rs.list))
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: more than a line: %v", rules, err)
		}
	}
}

// Nothing that a certificate or a setting holds breaks the rules, or takes long.
func FuzzRules(f *testing.F) {
	f.Add(everyKind, fullSubject)
	f.Add("RULE:(a*)*b/$1/L", strings.Repeat("a", 200))
	f.Add(`RULE:(x*|.*)/\$$1${0}/U,DEFAULT`, "\x00\xff")
	f.Add("RULE:(|.*)/x/", "0\xb5")
	f.Fuzz(func(t *testing.T, rules, subject string) {
		rs, err := ParseRules(rules)
		if err != nil {
			return
		}
		name, err := rs.Apply(subject)
		if err == nil && name == "" {
			t.Fatalf("%q of %q: nobody", rules, subject)
		}
		if len(rules) < 100 && len(name) > (len(subject)+2)*(len(subject)+2)*200 {
			t.Fatalf("%q of %q: %d bytes", rules, subject, len(name))
		}
		if err == nil && utf8.ValidString(rules) && utf8.ValidString(subject) && !utf8.ValidString(name) {
			t.Fatalf("%q of %q: torn characters in %q", rules, subject, name)
		}
	})
}

// What Java reads as sets of sets, and Go as something else without a word, is no rule.
func TestRulesOfSets(t *testing.T) {
	for pattern, good := range map[string]bool{
		`CN=([a-z&&[^x]]+),.*`: false,
		`[a-z&&b]`:             false,
		`[a[b]]`:               false,
		`[^[b]]`:               false,
		`[[:alpha:]]+`:         false,
		`[]a[]`:                false,
		`a\Q[\E[b[]`:           false,
		`a&&b`:                 true,
		`[a]&&[b]`:             true,
		`[a&b]`:                true,
		`[a\[\]&]`:             true,
		`[&\&]`:                true,
		`[]a][^]b]`:            true,
		`\[a[b]`:               true,
		`\Q[a[b&&\Ec`:          true,
		`[\\]x[b]`:             true,
	} {
		_, err := ParseRules("RULE:" + pattern + "/x/")
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "a set of sets") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}
