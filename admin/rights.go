package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// rights checks the permissions of this connection. A deployment without tokens is a warning. A permission that the
// role of the token needs and the connection lacks is a failure, and so is one that exceeds the role.
func rights(ctx context.Context, nc *nats.Conn, p *auth.Principal) Check {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	info, asked := aboutSelf(ctx, nc)
	switch {
	case asked && info.guest() && p == nil:
		return envelope.Failed("rights", "this connection is in the account "+info.Account+", and has shown no token",
			"take its user out of the servers' configuration, and out of auth_users: tokens alone lead to this account")
	case p == nil || asked && !info.guest():
		return envelope.Doubtful("rights", "tokens are not asked for: whoever reaches the server may do everything that "+
			"its user may, in any name", "make keys by `toolbus keys init`, and start servers and dispatchers with them: "+
			"docs/security.md")
	}
	want := auth.Permissions(*p, auth.PermissionInputs{})
	missing, extra := tried(ctx, nc, want.Pub.Allow, want.Sub.Allow)
	if asked { // no role may publish to this subject
		extra = append(extra, "publish $SYS.REQ.USER.INFO")
	}
	return compared(p.Role, missing, extra)
}

func compared(role auth.Role, missing, extra []string) Check {
	var says, fix []string
	if len(missing) > 0 {
		says = append(says, "missing: "+strings.Join(missing, ", "))
		fix = append(fix, "start dispatchers of one version, which say what a role may do")
	}
	if len(extra) > 0 {
		says = append(says, "too many: "+strings.Join(extra, ", "))
		fix = append(fix, "take the user out of the servers' configuration: only what dispatchers say may count")
	}
	if len(says) == 0 {
		return envelope.Well("rights", "those of the role "+string(role)+", and no more that matter")
	}
	return envelope.Failed("rights", "not those of the role "+string(role)+": "+strings.Join(says, "; "),
		strings.Join(fix, "; "))
}

// self is the server's answer about a connection.
type self struct {
	Account     string `json:"account"`
	Permissions *struct {
		Publish   map[string][]string `json:"publish"`
		Subscribe map[string][]string `json:"subscribe"`
	} `json:"permissions"`
}

// guest reports whether the account is for connections with tokens only.
func (s self) guest() bool {
	return slices.Contains([]string{auth.Agents, auth.Exec, auth.Auditors}, s.Account)
}

const subjectSelf = "$SYS.REQ.USER.INFO"

// aboutSelf asks the server for the account and the permissions of this connection. ok is false if the connection may
// not ask, or gets no answer.
func aboutSelf(ctx context.Context, nc *nats.Conn) (s self, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if !bus.MayPublish(ctx, nc, subjectSelf) {
		return s, false
	}
	msg, err := nc.RequestWithContext(ctx, subjectSelf, nil)
	if err != nil {
		return s, false
	}
	answer := struct {
		Data *self `json:"data"`
	}{&s}
	return s, json.Unmarshal(msg.Data, &answer) == nil
}

// tried compares the permissions that the connection should have with those that the server grants. It publishes only
// empty messages without a reply subject, which no process acts on.
func tried(ctx context.Context, nc *nats.Conn, publish, hear []string) (missing, extra []string) {
	nobody := strings.ToLower(rand.Text()[:12])
	for _, s := range publish {
		if !strings.HasPrefix(s, strings.TrimSuffix(subjects.PayloadsAll, ">")) && // a stream would store the message
			!bus.MayPublish(ctx, nc, example(s, nobody)) {
			missing = append(missing, "publish "+s)
		}
	}
	for _, s := range hear {
		if !mayHear(ctx, nc, s) {
			missing = append(missing, "hear "+s)
		}
	}
	for _, s := range []string{"$JS.API.INFO", "$JS.API.STREAM.INFO." + nobody, "$JS.API.STREAM.DELETE." + nobody,
		"$JS.API.CONSUMER.CREATE." + nobody, "$KV." + nobody + ".x", "$SYS.REQ.SERVER.PING", "$SRV.PING." + nobody,
		"tb.ans." + nobody + ".x.y.z", "tb.svc.describe." + nobody + ".x", "tb.call." + nobody + ".x.y",
		"tb.exe." + nobody + ".x.y", "tb.ctl.kill." + nobody} {
		if !bus.MayPublish(ctx, nc, s) {
			continue
		}
		extra = append(extra, "publish "+s)
	}
	for _, s := range []string{"tb.call.>", "tb.svc.>", "tb.ans.>", "tb.chunk.>", "tb.exe.>", "_INBOX.>", "$KV.>", "$JS.>",
		"$SYS.>"} {
		if mayHear(ctx, nc, s) {
			extra = append(extra, "hear "+s)
		}
	}
	return missing, extra
}

// mayHear reports whether the server lets this connection subscribe to a subject. It returns true if ctx ends first.
func mayHear(ctx context.Context, nc *nats.Conn, subject string) bool {
	sub, err := nc.Subscribe(subject, func(*nats.Msg) {})
	if err != nil {
		return false
	}
	defer func() { _ = sub.Unsubscribe() }() // fails if the server refused the subscription
	if nc.FlushWithContext(ctx) != nil {
		return true
	}
	err = nc.LastError()
	return !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), strconv.Quote(subject))
}

// example returns a subject that matches the given one, with the token nobody in place of each wildcard. No process
// acts on it.
func example(subject, nobody string) string {
	tokens := strings.Split(subject, ".")
	for i, t := range tokens {
		if t == "*" || t == ">" {
			tokens[i] = nobody
		}
	}
	return strings.Join(tokens, ".")
}
