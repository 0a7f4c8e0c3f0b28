package app

import (
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
)

// Transports returns all transports that manifests may name. A dispatcher also admits calls of tools that it could not
// run itself.
func Transports() []tool.Transport {
	return []tool.Transport{process.Describe(), native.Describe(), mcp.Describe()}
}
