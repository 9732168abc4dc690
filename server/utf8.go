package server

import (
	"reflect"
	"unicode/utf8"
)

// textOf is s as Kafka takes it: what is not UTF-8 is U+FFFD. Many clients cannot read an
// answer that gives them anything else back.
func textOf(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// mendText does that to every string of a message.
func mendText(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) && v.CanSet() {
			v.SetString(textOf(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			mendText(v.Elem())
		}
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Pointer, reflect.Slice, reflect.Struct:
			for i := range v.Len() {
				mendText(v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			mendText(v.Field(i))
		}
	}
}
