package main

import (
	"flag"

	"github.com/seed-018f16cc/toolbus/internal/tool/address"
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/webpage"
)

func main() {
	var allowed address.Networks
	flag.Var(&allowed, address.Flag, address.Usage)
	flag.Parse()
	program.Main(webpage.Tool(allowed))
}
