package main

import (
	"context"
	"fmt"
	"github.com/seed-018f16cc/toolbus/tool"
	"github.com/seed-018f16cc/toolbus/tool/process"
	"github.com/seed-018f16cc/toolbus/tool/tooltest"
	"os"
	"sort"
	"time"
)

func main() {
	process.RunIfSupervisor()
	a, err := process.New(process.Options{Supervisor: os.Args[1]})
	if err != nil {
		panic(err)
	}
	m := &tool.Manifest{Transport: "process", Dir: "/tmp", Endpoint: tool.Endpoint{Command: []string{"/bin/echo", `{"type":"output","output":1}`}}, Limits: tool.Limits{OutputBytes: 1000, StderrBytes: 1000, TimeoutMax: time.Minute}}
	var ds []time.Duration
	n := 200
	if len(os.Args) > 2 {
		n = 3
	}
	for range n {
		t := time.Now()
		_, err = a.Execute(context.Background(), m, tool.Invocation{Input: []byte("{}"), Deadline: time.Now()}, &tooltest.Recorder{})
		if err != nil {
			panic(err)
		}
		ds = append(ds, time.Since(t))
	}
	sort.Slice(ds, func(i, j int) bool { return ds[i] < ds[j] })
	fmt.Println("p50", ds[n/2], "p95", ds[n*95/100])
}
