package server

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

// byAddress has tests be somebody: whoever comes from 127.0.N.M is number 256 N + M of these.
var byAddress = []string{"", "admin", "alice", "bob"}

func identified(nc net.Conn) auth.Principal {
	ip := nc.RemoteAddr().(*net.TCPAddr).IP.To4()
	if n := int(ip[2])<<8 + int(ip[3]); n < len(byAddress) {
		return auth.User(byAddress[n])
	}
	return auth.Anonymous
}

// startAuthorized runs a broker with an authorizer whose super user is admin.
func startAuthorized(t testing.TB, sets ...string) *Node {
	t.Helper()
	cfg := testConfig(t, t.TempDir(), append([]string{"authorizer.class.name=" + standardAuthorizer, "super.users=User:admin"}, sets...)...)
	cfg.identify = identified
	return startConfig(t, cfg)
}

// dialAs is a connection of somebody's.
func dialAs(t testing.TB, user, addr string) *client {
	t.Helper()
	n := slices.Index(byAddress, user)
	if n < 0 {
		t.Fatalf("nobody is called %s", user)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(n>>8), byte(n))}}
	nc, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(60 * time.Second))
	return &client{t: t, nc: nc}
}

// allow is an ACL that allows a user something from anywhere. A name that ends in * is a
// prefix, unless it is nothing else.
func allow(user string, op acl.Operation, r acl.Resource, name string) projections.ACL {
	a := projections.ACL{Resource: r, Pattern: projections.ACLLiteral, Name: name, Principal: "User:" + user, Host: "*", Operation: op, Permission: projections.ACLAllow}
	if prefix, ok := strings.CutSuffix(name, "*"); ok && prefix != "" {
		a.Pattern, a.Name = projections.ACLPrefixed, prefix
	}
	return a
}

func deny(user string, op acl.Operation, r acl.Resource, name string) projections.ACL {
	a := allow(user, op, r, name)
	a.Permission = projections.ACLDeny
	return a
}

// grant has ACLs made.
func (c *client) grant(acls ...projections.ACL) {
	c.t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	req.Version = 3
	for _, a := range acls {
		req.Creations = append(req.Creations, creation(a))
	}
	for i, r := range c.ask(req).(*kmsg.CreateACLsResponse).Results {
		if r.ErrorCode != 0 {
			c.t.Fatalf("%s: error %d, %s", acls[i], r.ErrorCode, or(r.ErrorMessage, ""))
		}
	}
}

// revoke deletes all ACLs.
func (c *client) revoke() {
	c.t.Helper()
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Version = 3
	req.Filters = append(req.Filters, anyFilter())
	if got := c.ask(req).(*kmsg.DeleteACLsResponse).Results[0]; got.ErrorCode != 0 {
		c.t.Fatalf("delete ACLs: error %d", got.ErrorCode)
	}
}

// answerTold is what an answer tells: its error codes, which names it holds of those that are
// of interest, as these are called, IDs of topics (that there is one), and what may be done.
// Lists are in the order of what is told.
func answerTold(resp kmsg.Response, names func(string) string) string {
	return tell(reflect.ValueOf(resp).Elem(), "", names)
}

func tell(v reflect.Value, field string, names func(string) string) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return tell(v.Elem(), field, names)
	case reflect.Struct:
		return tellStruct(v, names)
	case reflect.Slice:
		return tellList(v, names)
	case reflect.String:
		if !strings.HasSuffix(field, "ErrorMessage") {
			return names(v.String())
		}
	case reflect.Array: // a topic's ID
		if !v.IsZero() {
			return "known"
		}
	case reflect.Int16:
		if strings.HasSuffix(field, "ErrorCode") {
			return fmt.Sprint(v.Int())
		}
	case reflect.Int32:
		if strings.HasSuffix(field, "AuthorizedOperations") && v.Int() > -1<<31 {
			return fmt.Sprintf("%b", v.Int())
		}
	}
	return ""
}

func tellStruct(v reflect.Value, names func(string) string) string {
	var parts []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Name == "Version" || f.Name == "UnknownTags" || !f.IsExported() {
			continue
		}
		if s := tell(v.Field(i), f.Name, names); s != "" {
			parts = append(parts, f.Name+"="+s)
		}
	}
	return strings.Join(parts, " ")
}

func tellList(v reflect.Value, names func(string) string) string {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return ""
	}
	var parts []string
	for i := range v.Len() {
		if s := tell(v.Index(i), "", names); s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	var out []string
	for i := 0; i < len(parts); {
		n := i
		for n < len(parts) && parts[n] == parts[i] {
			n++
		}
		s := "{" + parts[i] + "}"
		if n-i > 1 {
			s = fmt.Sprintf("%d×%s", n-i, s)
		}
		out, i = append(out, s), n
	}
	return "[" + strings.Join(out, " ") + "]"
}
