package health

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// writing holds those fields of a server's answer to HEALTHZ that are checked.
type writing struct {
	Errors []struct {
		Type  string `json:"type"`
		Error string `json:"error"`
	} `json:"errors"`
}

// writes asks n servers whether they write all streams. After one write to a stream has failed, for example on a full
// disk, a server writes nothing more to it, and answers no later write.
func writes(ctx context.Context, sys *nats.Conn, n int) envelope.Check {
	all, err := askServers[writing](ctx, sys, n, "HEALTHZ", `{"details":true}`)
	if err != nil {
		return envelope.Failed("writes", err.Error(), silent)
	}
	return written(all)
}

// written checks what servers say of the streams that they do not write. Other checks report other errors.
func written(all []told[writing]) envelope.Check {
	for _, s := range all {
		for _, e := range s.Data.Errors {
			if e.Type == "JETSTREAM" && strings.Contains(e.Error, "not enabled") ||
				e.Type == "STREAM" && strings.Contains(e.Error, "write error") {
				return envelope.Failed("writes", s.Server.Name+": "+e.Error,
					"make room on the disk of this server and restart it; nothing that was acknowledged is lost. "+
						"`toolbus dev` and `toolbus nats` go on by themselves")
			}
		}
	}
	return envelope.Well("writes", "servers write all streams")
}
