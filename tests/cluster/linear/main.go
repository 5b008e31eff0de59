// linear judges a history of operations on keys of an object store: whether each key is a linearizable register.
//
// It reads JSON lines (see operation) from the file named or from standard input. Exit status: 0, it is; 1, it is not, and
// a small part of the history that cannot be is printed; 2, the input cannot be read; 3, undecided in the time given.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	exitOK        = 0
	exitWrong     = 1
	exitUsage     = 2
	exitUndecided = 3
)

func describe(op *operation, start int64) string {
	what := op.Kind
	switch {
	case op.isRead() && op.Value == "":
		what += " -> absent"
	case op.isRead():
		what += " -> " + op.Value
	case op.Kind == kindPut:
		what += " " + op.Value
	}
	if op.IfNoneMatch {
		what += " if absent"
	}
	if op.IfMatch != "" {
		what += " if " + op.IfMatch
	}
	end := "      ..."
	if op.Return != never {
		end = fmt.Sprintf("%9.3f", float64(op.Return-start)/1e9)
	}
	if !op.isRead() || op.Outcome != outcomeOK {
		what += ": " + op.Outcome
	}
	return fmt.Sprintf("  %9.3f - %s  client %-3d %s", float64(op.Call-start)/1e9, end, op.Client, what)
}

// show prints the operations of a contradiction, and the puts that wrote what they name.
func show(to io.Writer, part, ops []operation, start int64) {
	named := make(map[string]bool)
	for i := range part {
		fmt.Fprintln(to, describe(&part[i], start))
		if part[i].isRead() {
			named[part[i].Value] = true
		}
		named[part[i].IfMatch] = true
	}
	for i := range part {
		if part[i].Kind == kindPut {
			delete(named, part[i].Value)
		}
	}
	for i := range ops {
		if ops[i].Kind == kindPut && named[ops[i].Value] {
			fmt.Fprintln(to, describe(&ops[i], start), "(before)")
		}
	}
}

func earliest(keys map[string][]operation) int64 {
	start := int64(never)
	for _, ops := range keys {
		for i := range ops {
			start = min(start, ops[i].Call)
		}
	}
	return start
}

type verdict struct {
	ops, part []operation // of the key; of a contradiction
	result    porcupine.CheckResult
}

// judgeAll judges each key by itself, as many at once as there are processors.
func judgeAll(names []string, keys map[string][]operation, patience time.Duration) []verdict {
	verdicts := make([]verdict, len(names))
	room := make(chan struct{}, runtime.NumCPU())
	var all sync.WaitGroup
	for i, name := range names {
		all.Add(1)
		go func(v *verdict, ops []operation) {
			room <- struct{}{}
			v.ops = settleSeen(ops)
			v.result, v.part = judge(v.ops, patience)
			<-room
			all.Done()
		}(&verdicts[i], keys[name])
	}
	all.Wait()
	return verdicts
}

func run(from io.Reader, to io.Writer, patience time.Duration) int {
	keys, count, err := readHistory(from)
	if err != nil {
		fmt.Fprintf(to, "linear: %v\n", err)
		return exitUsage
	}
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	sort.Strings(names)
	verdicts := judgeAll(names, keys, patience)
	start := earliest(keys)
	wrong, undecided, unknown := 0, 0, 0
	for i, name := range names {
		v := &verdicts[i]
		unknown += len(v.ops) - len(withoutUnknown(v.ops))
		switch v.result {
		case porcupine.Illegal:
			wrong++
			fmt.Fprintf(to, "key %s: no order of these operations explains what their clients saw (seconds):\n", name)
			show(to, v.part, v.ops, start)
		case porcupine.Unknown:
			undecided++
			fmt.Fprintf(to, "key %s: undecided after %v\n", name, patience)
		}
	}
	fmt.Fprintf(to, "linear: %d operations on %d keys, %d of unknown outcome that nobody saw; %d keys wrong, %d undecided\n",
		count, len(names), unknown, wrong, undecided)
	switch {
	case wrong > 0:
		return exitWrong
	case undecided > 0:
		return exitUndecided
	}
	return exitOK
}

func main() {
	patience := flag.Duration("patience", 60*time.Second, "for each key")
	flag.Parse()
	from := io.Reader(os.Stdin)
	if flag.NArg() > 1 {
		fmt.Fprintln(os.Stderr, "linear [-patience DURATION] [FILE]")
		os.Exit(exitUsage)
	}
	if flag.NArg() == 1 {
		file, err := os.Open(flag.Arg(0))
		if err != nil {
			fmt.Fprintf(os.Stderr, "linear: %v\n", err)
			os.Exit(exitUsage)
		}
		from = file
	}
	os.Exit(run(from, os.Stdout, *patience))
}
