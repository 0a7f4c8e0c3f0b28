//go:build !linux

package bench

import (
	"errors"
	"time"
)

var errPlatform = errors.New("bench measures CPU and memory on Linux only")

func own() (time.Duration, uint64, error)   { return 0, 0, errPlatform }
func processWakeUps(int) (uint64, error)    { return 0, errPlatform }
func processCPU(int) (time.Duration, error) { return 0, errPlatform }
func residentMB(int) (float64, error)       { return 0, errPlatform }
