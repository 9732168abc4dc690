package server

import (
	"log/slog"
	"strings"
	"testing"

	"kaas.dev/kaas/server/auth"
)

func aclKeyRows() map[string]keyRow {
	return map[string]keyRow{
		"authorizer.class.name":          {standardAuthorizer, func(c *Config) bool { return newAuthorizer(c, slog.Default()).on() }},
		"super.users":                    {"User:a;User:b", func(c *Config) bool { return len(c.ACL.SuperUsers) == 2 && c.ACL.SuperUsers[auth.User("b")] }},
		"allow.everyone.if.no.acl.found": {"true", func(c *Config) bool { return c.ACL.AllowIfNone }},
	}
}

func TestAuthorizerIsConfigured(t *testing.T) {
	load := func(sets ...string) (*Config, error) {
		return LoadConfig(Sources{Sets: append(sets, "listeners=PLAINTEXT://:0")})
	}
	c, err := load("super.users= User:CN=x,O=y ; ;Group:z;", "authorizer.class.name="+standardAuthorizer)
	if err != nil || len(c.ACL.SuperUsers) != 2 || !c.ACL.SuperUsers[auth.User("CN=x,O=y")] || !c.ACL.SuperUsers[auth.Principal{Type: "Group", Name: "z"}] {
		t.Errorf("%+v, %v", c.ACL, err)
	}
	for _, set := range []string{"authorizer.class.name=x", "super.users=alice", "super.users=User:a,alice;bob", "allow.everyone.if.no.acl.found=perhaps"} {
		if _, err := load(set); err == nil || !strings.Contains(err.Error(), strings.SplitN(set, "=", 2)[0]) {
			t.Errorf("%s: %v", set, err)
		}
	}
	if c, err := load(); err != nil || newAuthorizer(c, testLog(t)).on() || c.ACL.AllowIfNone {
		t.Errorf("by default: %+v, %v", c, err)
	}
}
