package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// node is an answer, or a part of one, in a form that can be compared: a value, named fields,
// or elements. IDs and the like are symbols in it; see [symbols].
type node struct {
	value  string
	fields []field // in order
	list   []field // elements by what identifies them, in order
}

type field struct {
	name string
	node *node
}

func leaf(format string, a ...any) *node { return &node{value: fmt.Sprintf(format, a...)} }

// tree makes a tree of an answer.
func (s *symbols) tree(resp kmsg.Response) *node {
	v := reflect.ValueOf(resp).Elem()
	s.learn(v)
	return s.of("", v)
}

func (s *symbols) of(name string, v reflect.Value) *node {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return leaf("null")
		}
		return s.of(name, v.Elem())
	case reflect.Struct:
		return s.fieldsOf(v)
	case reflect.Slice:
		return s.sliceOf(name, v)
	case reflect.Array:
		return leaf("%s", s.id(v.Interface().([16]byte)))
	case reflect.String:
		return leaf("%s", s.text(name, v.String()))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return leaf("%s", s.number(name, v.Int()))
	default:
		return leaf("%v", v.Interface())
	}
}

func (s *symbols) fieldsOf(v reflect.Value) *node {
	n := &node{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Name == "Version" && i == 0 {
			continue
		}
		if tags, ok := v.Field(i).Interface().(kmsg.Tags); ok {
			tags.Each(func(key uint32, val []byte) {
				n.fields = append(n.fields, field{fmt.Sprint("tag ", key), leaf("%x", val)})
			})
			continue
		}
		n.fields = append(n.fields, field{f.Name, s.of(f.Name, v.Field(i))})
	}
	return n
}

func (s *symbols) sliceOf(name string, v reflect.Value) *node {
	if b, ok := v.Interface().([]byte); ok {
		return s.bytes(name, b)
	}
	if v.IsNil() {
		return leaf("null")
	}
	n := &node{value: "list"}
	seen := map[string]int{}
	for i := range v.Len() {
		e := s.of("", v.Index(i))
		id := e.identity()
		seen[id]++
		if seen[id] > 1 {
			id = fmt.Sprint(id, "#", seen[id])
		}
		n.list = append(n.list, field{id, e})
	}
	return n
}

// identifying are the fields that tell one element of a list from another.
var identifying = []string{
	"Topic", "TopicName", "TopicID", "Partition", "Name", "Type", "ResourceType", "ResourceName", "ConfigName", "Feature", "ApiKey", "Group", "GroupID", "MemberID",
	"TransactionalID", "NodeID", "ProducerID", "CoordinatorKey", "Key", "Dir", "PartitionIndex", "Principal", "Mechanism", "User", "FinalizedFeature", "EntityType", "Match",
}

// identity is what tells an element from others of its list.
func (n *node) identity() string {
	if n.fields == nil {
		return n.value
	}
	var parts []string
	for _, name := range identifying {
		for _, f := range n.fields {
			if name == "TopicID" && len(parts) > 0 && parts[0] != `""` && parts[0] != "null" {
				continue // the name says it, and an ID may be what differs
			}
			if f.name == name && f.node.fields == nil && f.node.list == nil {
				parts = append(parts, f.node.value)
			}
		}
	}
	return strings.Join(parts, " ")
}
