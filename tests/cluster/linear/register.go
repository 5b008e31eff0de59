package main

import (
	"time"

	"github.com/anishathalye/porcupine"
)

// register is the state of one key.
type register struct {
	value    string
	anything bool // nothing is known, before the first operation of a window
	vanishes bool // a deletion of unknown outcome may make it absent at any time
}

func (r register) holds(op *operation) bool {
	switch {
	case op.IfNoneMatch:
		return r.value == ""
	case op.IfMatch != "":
		return r.value == op.IfMatch
	}
	return true
}

// step is the model: whether the operation may happen now with what its client saw, and the state after it. An operation of
// unknown outcome may always happen. One that does not is one that happens after everything else.
func (r register) step(op *operation) (bool, register) {
	after := register{vanishes: r.vanishes}
	absent := r.anything || r.vanishes || r.value == ""
	switch {
	case op.isRead():
		after.value = op.Value
		return r.anything || r.value == op.Value || (op.Value == "" && absent), after
	case op.Kind == kindDelete:
		return true, after
	case op.Outcome == outcomeRefused:
		return r.anything || !r.holds(op), r
	case r.anything || r.holds(op) || (op.IfNoneMatch && absent):
		after.value = op.Value
		return true, after
	}
	return op.Outcome == outcomeUnknown, r
}

func model(first register) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return first },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			return state.(register).step(input.(*operation))
		},
	}
}

func check(ops []operation, first register, patience time.Duration) porcupine.CheckResult {
	history := make([]porcupine.Operation, len(ops))
	for i := range ops {
		history[i] = porcupine.Operation{ClientId: ops[i].Client, Input: &ops[i], Call: ops[i].Call, Return: ops[i].Return}
	}
	return porcupine.CheckOperationsTimeout(model(first), history, patience)
}

// judge checks one key. Where no order of its operations explains what clients saw, it gives a small part of them that shows it.
//
// What is of unknown outcome and was never seen multiplies what has to be tried, above all where nothing can be found. So the
// first look is without it, which is one of the things that may have been. Then windows of the history are tried, which
// are small. Only then comes the whole with deletions of unknown outcome, and with all of them: a put that nobody saw
// can only be the reason of a refusal.
func judge(ops []operation, patience time.Duration) (porcupine.CheckResult, []operation) {
	if read := unwritten(ops); read != nil {
		return porcupine.Illegal, read
	}
	if check(withoutUnknown(ops, anyKind), register{}, patience) == porcupine.Ok {
		return porcupine.Ok, nil
	}
	if part := contradiction(ops); part != nil {
		return porcupine.Illegal, part
	}
	result := check(withoutUnknown(ops, isPut), register{}, patience)
	if result != porcupine.Ok {
		result = check(ops, register{}, patience)
	}
	return result, ops
}

func anyKind(*operation) bool { return true }

func isPut(op *operation) bool { return op.Kind == kindPut }

// unwritten finds a read of a value that nobody had begun to write, with the put of that value, if there is one.
func unwritten(ops []operation) []operation {
	puts := make(map[string]operation)
	for _, op := range ops {
		if op.Kind == kindPut && op.Outcome != outcomeRefused {
			puts[op.Value] = op
		}
	}
	for _, op := range ops {
		if !op.isRead() || op.Value == "" {
			continue
		}
		put, found := puts[op.Value]
		if !found {
			return []operation{op}
		}
		if put.Call > op.Return {
			return []operation{op, put}
		}
	}
	return nil
}
