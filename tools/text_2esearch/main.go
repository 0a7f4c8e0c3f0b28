package main

import (
	"os"

	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/textsearch"
)

func main() { program.Main(textsearch.Tool(os.Getenv(textsearch.RootVariable))) }
