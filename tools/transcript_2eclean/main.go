package main

import (
	"github.com/seed-018f16cc/toolbus/internal/transcript"
	"github.com/seed-018f16cc/toolbus/program"
)

func main() { program.Main(transcript.Tool(nil)) }
