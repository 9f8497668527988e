/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of -i: that of the file COPYING, which a test compares.
 */
#include "daemon/options/options_rows.h"

#include <stdio.h>

void options_print_license(void)
{
    options_print_version();
    fputs("\n"
          "Copyright (c) 2026, The mayfly authors\n"
          "All rights reserved.\n"
          "\n"
          "Redistribution and use in source and binary forms, with or without\n"
          "modification, are permitted provided that the following conditions are met:\n"
          "\n"
          "1. Redistributions of source code must retain the above copyright notice,\n"
          "   this list of conditions and the following disclaimer.\n"
          "\n"
          "2. Redistributions in binary form must reproduce the above copyright notice,\n"
          "   this list of conditions and the following disclaimer in the documentation\n"
          "   and/or other materials provided with the distribution.\n"
          "\n"
          "3. Neither the name of the copyright holder nor the names of its contributors\n"
          "   may be used to endorse or promote products derived from this software\n"
          "   without specific prior written permission.\n"
          "\n"
          "THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS \"AS IS\"\n"
          "AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE\n"
          "IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE\n"
          "DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE\n"
          "FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL\n"
          "DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR\n"
          "SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER\n"
          "CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,\n"
          "OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE\n"
          "OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.\n",
          stdout);
}
