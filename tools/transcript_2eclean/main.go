package main

import (
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/transcript"
)

func main() { program.Main(transcript.Tool(nil)) }
