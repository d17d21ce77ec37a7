package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// usage is what a running process has used so far.
type usage struct {
	cpu    time.Duration
	memory int64 // bytes resident now
}

// readUsage reads /proc/PID/stat, which has both figures in one place.
func readUsage(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	return parseUsage(stat)
}

// procTick is the unit of times in /proc. It is 1/USER_HZ, and USER_HZ is 100
// on every Linux that Go supports.
const procTick = time.Second / 100

// parseUsage counts fields from behind the command's name, since the name may
// itself hold spaces and parentheses. See proc_pid_stat(5) for the numbers.
func parseUsage(stat []byte) (usage, error) {
	const utime, stime, rss, firstField = 14, 15, 24, 3
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= rss-firstField {
		return usage{}, fmt.Errorf("/proc stat has %d fields behind the name, too few", len(fields))
	}
	var numbers [3]int64
	for i, field := range []int{utime, stime, rss} {
		n, err := strconv.ParseInt(string(fields[field-firstField]), 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("/proc stat field %d: %w", field, err)
		}
		numbers[i] = n
	}
	return usage{
		cpu:    time.Duration(numbers[0]+numbers[1]) * procTick,
		memory: numbers[2] * int64(os.Getpagesize()),
	}, nil
}
