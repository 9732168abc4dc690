package auth

import "testing"

func TestParse(t *testing.T) {
	for _, s := range []string{"User:alice", "User:CN=a:b,OU=x", "Group:*"} {
		if p, err := Parse(s); err != nil || p.String() != s {
			t.Errorf("%q: %q, %v", s, p, err)
		}
	}
	for _, s := range []string{"", "alice", ":alice", "User:", ":"} {
		if p, err := Parse(s); err == nil {
			t.Errorf("%q is taken for %q", s, p)
		}
	}
	if Anonymous.String() != "User:ANONYMOUS" {
		t.Errorf("anonymous is %s", Anonymous)
	}
}
