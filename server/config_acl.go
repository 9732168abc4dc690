package server

import (
	"fmt"
	"strings"

	"kaas.dev/kaas/server/auth"
)

// standardAuthorizer is Kafka's name of the authorizer that there is.
const standardAuthorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

var aclKeys = []configKey{
	text("authorizer.class.name", "", "The authorizer that decides who may do what: "+standardAuthorizer+". Empty: none, and everybody may do everything.", setAuthorizer),
	text("super.users", "", "Principals who may do everything, such as User:admin;User:broker, with semicolons between them. The brokers' own are to be among them.", setSuperUsers),
	boolean("allow.everyone.if.no.acl.found", "false", "Whether everybody may do everything with a resource that no ACL is for.",
		func(c *Config, b bool) { c.ACL.AllowIfNone = b }),
}

func setAuthorizer(c *Config, s string) error {
	switch strings.TrimSpace(s) {
	case "":
		c.Authorizer = false
	case standardAuthorizer:
		c.Authorizer = true
	default:
		return fmt.Errorf("%q is not known: the only one is %s", s, standardAuthorizer)
	}
	return nil
}

func setSuperUsers(c *Config, s string) error {
	c.ACL.SuperUsers = map[auth.Principal]bool{}
	for part := range strings.SplitSeq(s, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, err := auth.Parse(part)
		if err != nil {
			return err
		}
		c.ACL.SuperUsers[p] = true
	}
	return nil
}
