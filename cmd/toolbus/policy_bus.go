package main

import (
	"context"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// busManifests returns the manifests of all tools of the bus, as a dispatcher describes them to an operator.
func (g *global) busManifests(ctx context.Context) (all []*tool.Manifest, err error) {
	err = g.operating(ctx, func(c *admin.Client) error {
		if _, err := c.PolicyHistory(ctx); err != nil { // refuses callers that would get only some of the tools
			return err
		}
		all, err = manifestsOf(ctx, c)
		return err
	})
	return all, err
}

func manifestsOf(ctx context.Context, c *admin.Client) (all []*tool.Manifest, err error) {
	from := onBus{c, envelope.DescribeRequest{All: true}}
	listed, err := from.Tools(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range listed.Tools {
		info, err := from.Tool(ctx, one.ToolID)
		if err != nil {
			return nil, err
		}
		m, err := tool.FromDescription(info)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}
