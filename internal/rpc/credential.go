package rpc

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// credential is what vouches for the sender of a message. What it says of its connection counts only where the server
// has put it there, which takes all others of that name away: where there are two, neither does. Names that are spelt
// otherwise are anybody's.
func credential(h nats.Header) (c call.Credential) {
	c.Token = token(h)
	if infos := h[subjects.HeaderRequestInfo]; len(infos) == 1 {
		c.User = userOf(infos[0])
	}
	return c
}

// token returns what a message says for its sender; "" where it says nothing, or more than one thing.
func token(h nats.Header) string {
	if tokens := h[subjects.HeaderToken]; len(tokens) == 1 {
		return tokens[0]
	}
	return ""
}

// userOf returns the user of what the server says of a connection, in JSON. Names of users have no quotes; what others
// chose, such as the name of the connection, is written with escapes, so that it cannot look like a member.
func userOf(info string) string {
	_, rest, found := strings.Cut(info, `"user":"`)
	user, _, closed := strings.Cut(rest, `"`)
	if !found || !closed || strings.Contains(user, `\`) {
		return ""
	}
	return user
}
