package main

import (
	"os"

	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/filewrite"
)

func main() { program.Main(filewrite.Tool(os.Getenv(filewrite.RootVariable))) }
