package rpc

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// credential returns the token in the header of a message, and the NATS user of the connection that sent it. The server
// sets the header of the user and removes others with the same name, so two values mean that the header is not from the
// server: then neither counts. The look-up is case-sensitive, because a sender may set names with another case.
func credential(h nats.Header) (c call.Credential) {
	c.Token = token(h)
	if infos := h[subjects.HeaderRequestInfo]; len(infos) == 1 {
		c.User = userOf(infos[0])
	}
	return c
}

// token returns the token in the header of a message. It returns "" if there is none, or more than one.
func token(h nats.Header) string {
	if tokens := h[subjects.HeaderToken]; len(tokens) == 1 {
		return tokens[0]
	}
	return ""
}

// userOf returns the user in the JSON object with which the server describes a connection. It does not parse the
// object: names of users contain no quotes, and quotes in values that a client chose, such as the name of the
// connection, are escaped, so no value can look like this member.
func userOf(info string) string {
	_, rest, found := strings.Cut(info, `"user":"`)
	user, _, closed := strings.Cut(rest, `"`)
	if !found || !closed || strings.Contains(user, `\`) {
		return ""
	}
	return user
}
