package app

import (
	"github.com/seed-018f16cc/toolbus/tool"
	"github.com/seed-018f16cc/toolbus/tool/mcp"
	"github.com/seed-018f16cc/toolbus/tool/native"
	"github.com/seed-018f16cc/toolbus/tool/process"
)

// Transports are all those that manifests may name: a dispatcher admits calls of tools that it could not run itself.
func Transports() []tool.Transport {
	return []tool.Transport{process.Describe(), native.Describe(), mcp.Describe()}
}
