package main

import (
	"slices"
	"strings"
)

// difference is one place where two answers are not the same.
type difference struct {
	script, step string // what was asked
	api          string // with its version
	path         string // within the answer
	kafka, kaas  string
}

// none is the value of what only the other has.
const none = "(none)"

// differ calls found for each difference of two trees.
func differ(path string, kafka, kaas *node, found func(path, kafka, kaas string)) {
	if kafka.value != kaas.value || (kafka.fields == nil) != (kaas.fields == nil) {
		found(path, kafka.brief(), kaas.brief())
		return
	}
	if a, b := named(kafka.fields, "ErrorCode"), named(kaas.fields, "ErrorCode"); a != nil && b != nil && a.value != b.value {
		found(path+".ErrorCode", a.value, b.value) // the rest follows from it
		return
	}
	pairs(path+".", kafka.fields, kaas.fields, found)
	if kafka.value != "list" {
		return
	}
	pairs(path, bracketed(kafka.list), bracketed(kaas.list), found)
	if a, b := order(kafka.list, kaas.list), order(kaas.list, kafka.list); a != b {
		found(path+"[order]", a, b)
	}
}

func pairs(path string, kafka, kaas []field, found func(path, kafka, kaas string)) {
	for _, f := range kafka {
		if other := named(kaas, f.name); other != nil {
			differ(path+f.name, f.node, other, found)
		} else {
			found(path+f.name, f.node.brief(), none)
		}
	}
	for _, f := range kaas {
		if named(kafka, f.name) == nil {
			found(path+f.name, none, f.node.brief())
		}
	}
}

func named(fields []field, name string) *node {
	for _, f := range fields {
		if f.name == name {
			return f.node
		}
	}
	return nil
}

func bracketed(list []field) []field {
	out := slices.Clone(list)
	for i := range out {
		out[i].name = "[" + out[i].name + "]"
	}
	return out
}

// order is the order of the elements that both have.
func order(list, other []field) string {
	var names []string
	for _, f := range list {
		if named(other, f.name) != nil {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ", ")
}

// brief is a tree on a line.
func (n *node) brief() string {
	if n.value == "list" {
		if len(n.list) == 0 {
			return "[]"
		}
		parts := make([]string, len(n.list))
		for i, f := range n.list {
			parts[i] = f.node.brief()
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if n.fields == nil {
		return n.value
	}
	parts := make([]string, len(n.fields))
	for i, f := range n.fields {
		parts[i] = f.name + ":" + f.node.brief()
	}
	return "{" + strings.Join(parts, " ") + "}"
}
