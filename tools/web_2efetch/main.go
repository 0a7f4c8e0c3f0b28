package main

import (
	"github.com/seed-018f16cc/toolbus/internal/webpage"
	"github.com/seed-018f16cc/toolbus/program"
)

func main() { program.Main(webpage.Tool()) }
