package history

import (
	"regexp"
	"strings"

	"kaas.dev/kaas/projections"
)

var idRE = regexp.MustCompile(`(ID )?\b[0-9a-f]{32}\b`)

// sayer puts the names of topics into the lines of events, which have their IDs: what an
// event tells wins over what the newest state has. An ID that is told as one stays.
type sayer struct {
	known   Namer
	learned map[projections.TopicID]string
}

func newSayer(s *Stream) *sayer {
	return &sayer{known: s.names, learned: map[projections.TopicID]string{}}
}

func (n *sayer) event(ev *Event) {
	if s := &ev.Subject; s.TopicName != "" {
		for _, id := range s.Topics {
			n.learned[id] = s.TopicName
		}
	}
	ev.Text = idRE.ReplaceAllStringFunc(ev.Text, func(text string) string {
		if strings.HasPrefix(text, "ID ") {
			return text
		}
		id, err := projections.ParseTopicID(text)
		if err != nil {
			return text
		}
		return n.name(id)
	})
}

func (n *sayer) name(id projections.TopicID) string {
	if name, ok := n.learned[id]; ok {
		return name
	}
	return n.known(id)
}
