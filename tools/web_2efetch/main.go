package main

import (
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/webpage"
)

func main() { program.Main(webpage.Tool()) }
