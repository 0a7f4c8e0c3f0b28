package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/chaos/mcpclient"
)

// gateways returns the names of the MCP gateways of a run. A run with an older build has none.
func (o Options) gateways() []string {
	if o.servesMCP() {
		return gatewayNames
	}
	return nil
}

// open adds the MCP gateways. With tokens, each request contains the token of its actor. Without tokens, all calls of
// the gateways are of the first actor.
func (c *cluster) open(o Options) error {
	if len(o.gateways()) == 0 {
		return nil
	}
	ports, err := freePorts(rand.New(rand.NewPCG(o.Seed, 6)), len(o.gateways()))
	if err != nil {
		return err
	}
	for i, name := range o.gateways() {
		at := fmt.Sprintf("127.0.0.1:%d", ports[i])
		args := []string{"gateway", "mcp", "--listen", at, "--server", c.url(name)}
		if o.Identity {
			args = append(args, "--credentials", c.deployment.Credentials(name))
		} else {
			args = append(args, "--actor", actorOf(0))
		}
		c.add(name, args, nil)
		c.doors = append(c.doors, "http://"+at+"/mcp")
	}
	return nil
}

// visit makes the request as an MCP client that retries: it tries each gateway in turn, with the same key. If it gets
// no answer in time, it records a local timeout, as the client library does.
func (d *driver) visit(ctx context.Context, seen *checker.Ask, req *envelope.Request, a ask) {
	seen.MCP = true
	ctx, cancel := context.WithDeadline(ctx, seen.Due.Add(waits))
	defer cancel()
	c := mcpclient.Call{
		Tool: req.ToolID, Key: req.Constraints.IdempotencyKey, Input: req.Input, First: a.caller / 2, Cut: a.cut,
		Due: seen.Due, Token: d.callers[a.caller].Token,
	}
	r, err := d.visitor.Call(ctx, c)
	if err != nil {
		r = envelope.Failure(a.callID, envelope.NewError(envelope.CodeTimeout, "").WithCause(err.Error()),
			envelope.Provenance{}, envelope.Metrics{})
	}
	seen.CallID = r.CallID
	seen.Answers = append(seen.Answers, r)
}
