package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func panicAPI(key kmsg.Key, late bool) api {
	return api{key: key, max: 5, start: func(*Server, context.Context, *request) (reply, error) {
		if !late {
			panic("on purpose")
		}
		return later(func(context.Context) (kmsg.Response, error) { panic("on purpose") })
	}}
}

// before is the table with others for some of its keys.
func before(as ...api) []api { return append(as, apis...) }
