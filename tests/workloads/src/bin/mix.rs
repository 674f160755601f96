//! `mix` over a runtime that it opens itself. See `workloads::mix`.

use workloads::runtime::Runtime;

fn main() {
    workloads::mix::main(|options| Runtime::open(&options.cudart));
}
